from infra.service import main
from services.gateway.app import make_app

main(make_app, is_for_all=True)
