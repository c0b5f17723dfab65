/** The mark: a seedling under a glass bell. */
export function Bell({ size = 24 }: { size?: number }) {
  return (
    <svg width={size} height={size} viewBox="0 0 32 32" fill="none" stroke="currentColor" stroke-linecap="round" stroke-linejoin="round" aria-hidden="true">
      <path d="M6 26V17a10 10 0 0 1 20 0v9M3.5 26h25" stroke-width="2.2" />
      <circle cx="16" cy="4.6" r="1.5" fill="currentColor" />
      <path d="M16 25v-7m0 0c0-3 2-4.5 5-4.5 0 3-2 4.5-5 4.5Zm0 2c0-2.4-1.7-3.6-4.2-3.6 0 2.4 1.7 3.6 4.2 3.6Z" stroke-width="1.7" />
    </svg>
  );
}
