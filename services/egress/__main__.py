from infra.service import main
from services.egress.app import make_app

main(make_app)
