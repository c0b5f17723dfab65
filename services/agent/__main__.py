from infra.service import main
from services.agent.app import make_app

main(make_app)
