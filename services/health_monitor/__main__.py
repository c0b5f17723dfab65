from infra.service import main
from services.health_monitor.app import make_app

main(make_app)
