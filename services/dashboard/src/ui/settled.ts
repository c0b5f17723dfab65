import { useEffect, useState } from "preact/hooks";

/** A value once it stays as it is for a moment: nobody waits for what is found while they still type. */
export function useSettled<T>(value: T, ms = 150): T {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), ms);
    return () => clearTimeout(timer);
  }, [value, ms]);
  return settled;
}
