import { Shell } from "./views/shell";
import { SignedOut } from "./views/signed_out";
import { ListPage } from "./views/list/page";
import { SandboxPage } from "./views/sandbox/page";
import { route } from "./state/route";
import { shutOut } from "./state/session";
import { Toasts } from "./ui/toasts";

export function App() {
  const { sandbox } = route.value;
  if (shutOut.value) return <SignedOut />;
  return (
    <Shell>
      {sandbox === null ? <ListPage /> : <SandboxPage key={sandbox} id={sandbox} />}
      <Toasts />
    </Shell>
  );
}
