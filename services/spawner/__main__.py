from infra.service import main
from services.spawner.app import make_app

main(make_app)
