from infra.service import main
from services.guardian.app import make_app

main(make_app)
