/** Why a request did not do what it was asked for: the gateway's problem+json, or that there was no answer. */
export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly retryable = false,
  ) {
    super(message);
    this.name = "Problem";
  }

  get unauthenticated(): boolean {
    return this.status === 401;
  }

  /** The gateway or what is behind it is away: the same request may work in a moment. */
  get passing(): boolean {
    return this.status === 0 || this.status === 503 || this.retryable;
  }
}

export async function problemOf(response: Response): Promise<Problem> {
  try {
    const told = (await response.json()) as { code?: string; detail?: string; retryable?: boolean };
    return new Problem(response.status, told.code ?? "UNKNOWN", told.detail ?? response.statusText, told.retryable);
  } catch {
    return new Problem(response.status, "UNKNOWN", `the gateway answered ${response.status} ${response.statusText}`);
  }
}

/** What was only asked for is asked again; an order is not, for nobody knows whether it was heard. */
export function unreachable(order: boolean): Problem {
  const words = order ? "The gateway does not answer, and may have heard that or not: look before you do it again." : "The gateway does not answer. It is tried again; `./cloche up` starts it.";
  return new Problem(0, "UNREACHABLE", words, true);
}

export function isPassing(error: unknown): boolean {
  return error instanceof Problem && error.passing;
}

/** Words for whoever sees it, whatever was thrown. */
export function wordsOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
