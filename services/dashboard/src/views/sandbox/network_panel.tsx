/** Every request that left the sandbox, or was refused. */

import { useMemo } from "preact/hooks";
import type { SandboxStore } from "../../state/sandbox";
import { requestsOf, type Request } from "../../story/requests";
import { bytes, clock } from "../../story/words";
import { Empty } from "../../ui/empty";
import { Pill, type PillTone } from "../../ui/pill";
import { Windowed } from "../../ui/windowed";

const TONES: Record<string, PillTone> = { allowed: "good", denied: "bad", asked: "warn", approved: "good", rejected: "bad", unattached: "bad" };

export function NetworkPanel({ store }: { store: SandboxStore }) {
  void store.record.version.value;
  const shelf = store.record.family("network");
  const count = shelf.countTo(store.moment.value);
  const requests = useMemo(() => requestsOf(shelf.rows(0, count)), [count, shelf.first?.sequence]);
  const network = store.shown.value?.spec.network;
  const denied = requests.reduce((sum, each) => sum + (each.verdict === "denied" ? each.count : 0), 0);
  const received = requests.reduce((sum, each) => sum + each.received, 0);
  return (
    <div class="network-panel">
      {network && (
        <p class="policy">
          <Pill bare tone={network.mode === "full" ? "warn" : "info"}>{network.mode}</Pill>
          <span class="soft grow">{network.mode === "none" ? "Nothing leaves it." : network.mode === "full" ? "It has the machine's network, and nobody sees what leaves it." : network.allowed_hosts.length ? `May reach ${network.allowed_hosts.slice(0, 6).join(", ")}${network.allowed_hosts.length > 6 ? ` and ${network.allowed_hosts.length - 6} more` : ""}, ports ${network.allowed_ports.join(", ")}` : "May reach nothing."}</span>
          <span class="faint">{[denied > 0 ? `${denied} denied` : "", received > 0 ? `${bytes(received)} received` : ""].filter(Boolean).join(" · ")}</span>
        </p>
      )}
      {requests.length === 0 ? <Empty title="Nothing asked for the network"><p>Each request is listed here with its host and what became of it. <code>./cloche net {store.id} --allow HOST</code> lets more through.</p></Empty> : (
        <Windowed
          class="lines-list" count={requests.length} estimate={34} fixed follow label="Requests" keyOf={(index) => requests[index]?.key ?? index}
          render={(index) => { const each = requests[index]; return each && <RequestLine request={each} />; }}
        />
      )}
    </div>
  );
}

function RequestLine({ request }: { request: Request }) {
  return (
    <div class="request">
      <time class="faint mono" title={`sequence ${request.sequence}`}>{clock(request.time)}</time>
      <Pill tone={TONES[request.verdict] ?? "plain"}>{request.verdict}{request.count > 1 ? ` ×${request.count}` : ""}</Pill>
      <span class="mono faint">{request.method}</span>
      <span class="mono cut grow" title={`${request.host}:${request.port}${request.path}`}>{request.host}{request.port === null ? "" : `:${request.port}`}{request.path}</span>
      <span class="cut reason faint">{request.reason}</span>
      <span class="mono">{request.status ?? ""}</span>
      <span class="faint size">{request.received ? bytes(request.received) : ""}</span>
    </div>
  );
}
