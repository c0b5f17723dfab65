from infra.service import main
from services.replay.app import make_app

main(make_app)
