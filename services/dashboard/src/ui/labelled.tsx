import type { ComponentChildren } from "preact";
import { useId } from "preact/hooks";

export interface Field {
  id: string;
  "aria-invalid": boolean;
  "aria-describedby": string;
}

export interface LabelledProps {
  label: string;
  hint?: string | undefined;
  fault?: string | undefined;
  whole?: boolean;
  children: (field: Field) => ComponentChildren;
}

/** A field with its name above and, below, what it takes or what is wrong. */
export function Labelled({ label, hint, fault, whole = false, children }: LabelledProps) {
  const id = useId();
  return (
    <div class={`labelled ${whole ? "whole" : ""}`}>
      <label for={id}>{label}</label>
      {children({ id, "aria-invalid": fault !== undefined, "aria-describedby": `${id}-about` })}
      <span id={`${id}-about`} class={fault ? "wrong" : "faint"} role={fault ? "alert" : undefined}>{fault ?? hint ?? ""}</span>
    </div>
  );
}
