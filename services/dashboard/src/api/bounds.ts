/** What a specification may hold, as the gateway's own description says it. */

export interface Bound {
  least: number;
  most: number;
  usual: number;
}

export type ResourceName = "memory_mb" | "cpus" | "pids" | "disk_mb" | "timeout_ms";
export type Bounds = Record<ResourceName, Bound>;

/** Where the description cannot be had: as of the version that this page came with. The gateway checks all the same. */
export const KNOWN: Bounds = {
  memory_mb: { least: 512, most: 32_768, usual: 4096 },
  cpus: { least: 0.5, most: 16, usual: 2 },
  pids: { least: 32, most: 4096, usual: 256 },
  disk_mb: { least: 1024, most: 102_400, usual: 10_240 },
  timeout_ms: { least: 60_000, most: 86_400_000, usual: 3_600_000 },
};

interface Property {
  minimum?: number;
  maximum?: number;
  default?: number;
}

export async function loadBounds(): Promise<Bounds> {
  try {
    const response = await fetch("/api/openapi.json", { credentials: "same-origin" });
    return response.ok ? boundsOf(await response.json()) : KNOWN;
  } catch {
    return KNOWN;
  }
}

export function boundsOf(description: unknown): Bounds {
  const schemas = (description as { components?: { schemas?: Record<string, { properties?: Record<string, Property> }> } })?.components?.schemas ?? {};
  const found = Object.values(schemas).find((each) => each.properties?.["memory_mb"] && each.properties["pids"])?.properties;
  const names = Object.keys(KNOWN) as ResourceName[];
  return Object.fromEntries(names.map((name) => [name, bound(found?.[name], KNOWN[name])])) as Bounds;
}

function bound(property: Property | undefined, known: Bound): Bound {
  return {
    least: property?.minimum ?? known.least,
    most: property?.maximum ?? known.most,
    usual: property?.default ?? known.usual,
  };
}
