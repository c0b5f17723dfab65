"""Every figure of every service. A dashboard, an alert and the page of docs may name these and no others."""

from contracts import subjects
from contracts.errors import BY_CODE
from contracts.events.health import DeathCause
from infra.observing.figures import Counter, Gauge, Histogram

SERVICES = ("spawner", "executor", "file_watcher", "health_monitor", "replay", "guardian", "egress", "agent", "gateway")
METHODS = ("GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE")
LONG_S = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0)
DENIED = (401, 403, 429)
"""Of HTTP: whoever asked may not, or not so much. Other failures are no denials."""
BUS = "bus"
PROCESS = "process"

ready = Gauge(
    "cloche_service_ready", "1 while the service takes orders and its connection is up.", PROCESS, {"service": SERVICES}
)
restarts = Counter(
    "cloche_service_restarts", "How often a service failed and was started again.", PROCESS, {"service": SERVICES}
)

connected = Gauge("cloche_bus_connected", "1 while NATS is connected.", BUS, {"service": SERVICES})
reconnects = Counter(
    "cloche_bus_reconnects", "Connections to NATS after the first, since it was lost.", BUS, {"service": SERVICES}
)
orders_pulled = Counter("cloche_orders_pulled", "Orders that were taken from the queue.", BUS, {"service": SERVICES})
orders_in_hand = Gauge("cloche_orders_in_hand", "Orders that are being carried out.", BUS, {"service": SERVICES})
orders_settled = Counter(
    "cloche_orders_settled",
    "How orders ended: acked, given back for later, refused with a reason, given up by a service that cannot"
    " (`dead`), or given back by one that ends.",
    BUS,
    {"service": SERVICES, "outcome": ("acked", "later", "refused", "dead", "cancelled")},
)
order_wait = Histogram(
    "cloche_order_wait_seconds", "From when an order was stored until it was begun.", BUS, {"service": SERVICES}
)
order_seconds = Histogram(
    "cloche_order_seconds", "From when an order was begun until it was settled.", BUS, {"service": SERVICES}
)
denials = Counter(
    "cloche_denials",
    "What was asked of a service by somebody who may not, or not so much, by the code of the refusal.",
    BUS,
    {"service": SERVICES, "code": [code for code, error in BY_CODE.items() if error.http_status in DENIED]},
)
queue_depth = Gauge("cloche_queue_depth", "Orders that wait in the queue of a consumer.", BUS, {"durable": None})
queue_unsettled = Gauge(
    "cloche_queue_unsettled", "Orders that the server has given out and has no end of.", BUS, {"durable": None}
)
lag_events = Gauge(
    "cloche_follower_lag_events", "Events that a follower of the log has not applied yet.", BUS, {"follower": None}
)
lag_seconds = Gauge(
    "cloche_follower_lag_seconds", "Age of the oldest event that a follower has not applied.", BUS, {"follower": None}
)
events_stored = Counter(
    "cloche_events_stored",
    "Events that this process has put on the log, each once.",
    BUS,
    {"family": (*subjects.FAMILIES, subjects.DEAD_LETTER), "kind": None},
    begins_with=[(family, kind) for family, kinds in subjects.FAMILIES.items() for kind in kinds],
)
bytes_stored = Counter("cloche_event_bytes_stored", "Bytes of those events.", BUS, {"service": SERVICES})
publish_retries = Counter(
    "cloche_publish_retries", "Messages that were sent to the log again.", BUS, {"service": SERVICES}
)
window_used = Gauge(
    "cloche_publish_window_used", "Messages that are sent and not acknowledged.", BUS, {"service": SERVICES}
)
window_full = Counter(
    "cloche_publish_window_full", "How often a writer waited for room in its window.", BUS, {"service": SERVICES}
)
window_full_seconds = Counter(
    "cloche_publish_window_full_seconds", "How long writers waited for that.", BUS, {"service": SERVICES}
)

commands_running = Gauge("cloche_commands_running", "Commands that are not over, of this node.", "executor")
exec_start = Histogram(
    "cloche_exec_start_seconds", "From when the order was stored until the process was begun.", "executor"
)
exec_first_byte = Histogram(
    "cloche_exec_first_byte_seconds", "From the process's beginning to its first output.", "executor"
)
exec_seconds = Histogram(
    "cloche_exec_seconds", "From a process's beginning to its end.", "executor", bounds=(*LONG_S, 3600.0)
)
output_bytes = Counter(
    "cloche_command_output_bytes", "Bytes that commands wrote.", "executor", {"stream": ("stdout", "stderr", "pty")}
)
slots = Counter(
    "cloche_keeper_slots",
    "Starts in containers: with a slot in stock, or not.",
    "executor",
    {"result": ("hit", "miss")},
)
slots_ready = Gauge("cloche_keeper_slots_ready", "Prepared slots that wait.", "executor")
keeper_up = Gauge("cloche_keeper_up", "1 while the keeper answers.", "executor", fold=min)
keepers_lost = Counter("cloche_keepers_lost", "Keepers that went away while they were needed.", "executor")

sandboxes = Gauge(
    "cloche_sandboxes",
    "Sandboxes of this node.",
    "spawner",
    {"status": ("creating", "running", "paused", "stopped", "completed", "failed", "error")},
)
sandboxes_limit = Gauge("cloche_sandboxes_limit", "Sandboxes that this node takes at most.", "spawner")
creations = Counter(
    "cloche_sandbox_creations", "Sandboxes that were to be made.", "spawner", {"outcome": ("created", "failed")}
)
creation_seconds = Histogram(
    "cloche_sandbox_creation_seconds", "From the order's turn until the sandbox runs.", "spawner", bounds=LONG_S
)
pool_ready = Gauge("cloche_pool_ready", "Blank sandboxes that are kept ready.", "spawner")
pool_takes = Counter(
    "cloche_pool_takes", "Creations that found a blank of their shape, or not.", "spawner", {"result": ("hit", "miss")}
)
recoveries = Counter(
    "cloche_recoveries",
    "Recoveries, by what they were for and how they ended; `given_up` = died too often.",
    "spawner",
    {"cause": ("death", "order"), "outcome": ("recovered", "failed", "retried", "given_up")},
)
queue_oldest = Gauge(
    "cloche_queue_oldest_seconds",
    "Age of the oldest order for a consumer that has not ended, whether or not somebody has it in hand.",
    "spawner",
    {"durable": None},
)
node_silent = Gauge(
    "cloche_node_silent_seconds",
    "Since the last sign of life of a node that is neither drained nor lost; 3600 = that, or longer.",
    "spawner",
    {"name": None},
)
disk_free = Gauge("cloche_disk_free_bytes", "Left on the disk of the data folder.", "spawner")
disk_size = Gauge("cloche_disk_size_bytes", "What that disk has in all.", "spawner")

blobs_stored = Counter("cloche_blobs_stored", "Contents that were new to the store.", "file_watcher")
blob_bytes_stored = Counter("cloche_blob_bytes_stored", "Bytes of those contents.", "file_watcher")
workspaces_followed = Gauge("cloche_workspaces_followed", "Workspaces whose files are followed.", "file_watcher")

deaths = Counter(
    "cloche_sandbox_deaths", "Sandboxes that died, by cause.", "health_monitor", {"cause": tuple(DeathCause)}
)

store_bytes = Gauge("cloche_store_bytes", "Bytes of a stream in the store.", "replay", {"stream": None})
store_messages = Gauge("cloche_store_messages", "Messages of a stream in the store.", "replay", {"stream": None})
store_limit = Gauge("cloche_store_limit_bytes", "What it may have; 0 = no limit.", "replay", {"stream": None})
checkpoint_age = Gauge(
    "cloche_audit_checkpoint_age_seconds",
    "Since the last checkpoint while events wait for the next; else 0.",
    "replay",
    fold=max,
)
unproven = Gauge("cloche_audit_unproven_events", "Events after the last checkpoint.", "replay")
audit_trouble = Gauge("cloche_audit_trouble", "1 while nothing can be proven.", "replay", fold=max)

findings = Counter(
    "cloche_guardian_findings",
    "What the guardian found and told, by rule and step.",
    "guardian",
    {"rule": None, "step": None},
)

egress_requests = Counter(
    "cloche_egress_requests", "Requests out of sandboxes.", "egress", {"verdict": ("allowed", "denied")}
)
egress_bytes = Counter(
    "cloche_egress_bytes", "Bytes of what was let through.", "egress", {"direction": ("sent", "received")}
)

runs_open = Gauge("cloche_agent_runs_open", "Runs of agents that are not over, of this node.", "agent")
approvals_pending = Gauge("cloche_approvals_pending", "Tool calls that wait for somebody's leave.", "agent")
approvals_oldest = Gauge("cloche_approvals_oldest_seconds", "How long the oldest of them waits.", "agent", fold=max)

requests = Counter(
    "cloche_gateway_requests",
    "Requests that were answered.",
    "gateway",
    {"method": METHODS, "route": None, "status": None},
)
request_seconds = Histogram(
    "cloche_gateway_request_seconds", "From a request to the end of its answer.", "gateway", {"route": None}
)
followers = Gauge(
    "cloche_gateway_followers", "Clients that follow right now.", "gateway", {"kind": ("websocket", "sse")}
)
events_sent = Counter("cloche_gateway_events_sent", "Events that were sent to followers.", "gateway")
event_bytes_sent = Counter("cloche_gateway_event_bytes_sent", "Bytes of those events, as framed.", "gateway")
slow_clients = Counter("cloche_gateway_slow_clients_dropped", "Followers that took nothing too long.", "gateway")
feed_lag = Gauge("cloche_gateway_feed_lag_seconds", "Age of the event that a feed had last.", "gateway")

ALL = tuple(value for value in list(globals().values()) if isinstance(value, Counter | Gauge | Histogram))
