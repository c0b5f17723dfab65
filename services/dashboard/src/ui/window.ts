/** Which rows of a long list are in sight: the arithmetic of windowing. */

export interface Range {
  first: number;
  /** One behind the last. */
  end: number;
}

/** Where each row begins, and at the end the height of them all. */
export function offsetsOf(count: number, heightOf: (index: number) => number): Float64Array {
  const offsets = new Float64Array(count + 1);
  let top = 0;
  for (let index = 0; index < count; index += 1) {
    offsets[index] = top;
    top += heightOf(index);
  }
  offsets[count] = top;
  return offsets;
}

/** The row at a height; the last one for what is below them all. */
export function rowAt(offsets: Float64Array, top: number): number {
  let low = 0;
  let high = offsets.length - 1;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((offsets[middle + 1] ?? Infinity) <= top) low = middle + 1;
    else high = middle;
  }
  return Math.max(0, Math.min(low, offsets.length - 2));
}

export function rangeOf(offsets: Float64Array, top: number, height: number, beyond: number): Range {
  const count = offsets.length - 1;
  if (count === 0) return { first: 0, end: 0 };
  const first = rowAt(offsets, Math.max(0, top - beyond));
  const last = rowAt(offsets, top + height + beyond);
  return { first, end: Math.min(count, last + 1) };
}
