/** Requests to our own origin, with the session's cookie. Each one throws a `Problem` where it fails. */

import { Problem, problemOf, unreachable } from "./problem";

export type Query = Record<string, string | number | boolean | null | undefined>;

const BASE = "/api/v1";
const noSession = new Set<() => void>();

/** Called whenever somebody is found not to be let in. */
export function onNoSession(told: () => void): void {
  noSession.add(told);
}

export async function get<T>(path: string, query: Query = {}, signal?: AbortSignal): Promise<T> {
  return (await (await send("GET", path, query, undefined, signal)).json()) as T;
}

export async function getBytes(path: string, query: Query = {}, signal?: AbortSignal): Promise<Uint8Array> {
  return new Uint8Array(await (await send("GET", path, query, undefined, signal)).arrayBuffer());
}

export async function post<T>(path: string, body: unknown = {}, query: Query = {}): Promise<T> {
  return (await (await send("POST", path, query, body)).json()) as T;
}

export async function remove(path: string, query: Query = {}): Promise<void> {
  await send("DELETE", path, query);
}

async function send(method: string, path: string, query: Query, body?: unknown, signal?: AbortSignal): Promise<Response> {
  const init: RequestInit = { method, credentials: "same-origin", cache: "no-store", signal: signal ?? null };
  if (body !== undefined) {
    init.headers = { "content-type": "application/json" };
    init.body = JSON.stringify(body);
  }
  const response = await answered(fetch(`${BASE}${path}${queryOf(query)}`, init), method !== "GET");
  if (response.ok) return response;
  const problem = await problemOf(response);
  if (problem.unauthenticated) noSession.forEach((told) => told());
  throw problem;
}

async function answered(asked: Promise<Response>, order: boolean): Promise<Response> {
  try {
    return await asked;
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw unreachable(order);
  }
}

export function queryOf(query: Query): string {
  const given = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const search = new URLSearchParams(given.map(([key, value]) => [key, String(value)]));
  return given.length === 0 ? "" : `?${search}`;
}

export function isGone(error: unknown): boolean {
  return error instanceof Problem && error.status === 404;
}

export function isAbort(error: unknown): boolean {
  return error instanceof DOMException && error.name === "AbortError";
}
