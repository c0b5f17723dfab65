/** For whoever has no session, or whose session is over. */

import { useState } from "preact/hooks";
import { post } from "../api/http";
import { wordsOf } from "../api/problem";
import { loadSession } from "../state/session";
import { Bell } from "../ui/bell";

export function SignedOut() {
  const [token, setToken] = useState("");
  const [wrong, setWrong] = useState<string | null>(null);

  async function enter(event: Event): Promise<void> {
    event.preventDefault();
    try {
      await post("/session", { token: token.trim() });
      await loadSession();
    } catch (error) {
      setWrong(wordsOf(error));
    }
  }

  return (
    <main class="signed-out">
      <div class="card">
        <Bell size={44} />
        <h1>You are not signed in</h1>
        <p class="soft">On the machine where Cloche runs, this opens the page with a session:</p>
        <pre class="line">./cloche open</pre>
        <p class="soft">From elsewhere, ask for a token (<code>./cloche token</code> makes one) and give it here. It is exchanged for a cookie, and kept nowhere else.</p>
        <form class="row" onSubmit={enter}>
          <input class="field grow mono" type="password" autocomplete="off" aria-label="Token" placeholder="Token" value={token} onInput={(event) => setToken(event.currentTarget.value)} />
          <button class="button main" disabled={token.trim() === ""}>Come in</button>
        </form>
        {wrong && <p class="wrong" role="alert">{wrong}</p>}
      </div>
    </main>
  );
}
