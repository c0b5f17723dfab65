from infra.service import main
from services.file_watcher.app import make_app

main(make_app)
