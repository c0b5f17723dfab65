from infra.service import main
from services.executor.app import make_app

main(make_app)
