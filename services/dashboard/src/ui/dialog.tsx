import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { Icon } from "./icon";

export interface DialogProps {
  title: string;
  onClose: () => void;
  children: ComponentChildren;
  foot?: ComponentChildren;
}

/** A modal dialog of the browser's own: it keeps the focus, and Escape closes it. */
export function Dialog({ title, onClose, children, foot }: DialogProps) {
  const element = useRef<HTMLDialogElement>(null);
  const beside = (event: Event) => event.target === element.current;
  /** Whoever selects text, and lets go beside the dialog, has not pressed there. */
  const pressedBeside = useRef(false);
  useEffect(() => {
    const before = document.activeElement as HTMLElement | null;
    element.current?.showModal();
    return () => before?.focus?.();
  }, []);
  return (
    <dialog ref={element} aria-label={title} onClose={onClose} onPointerDown={(event) => (pressedBeside.current = beside(event))} onClick={(event) => beside(event) && pressedBeside.current && onClose()}>
      <div class="dialog-head">
        <h2>{title}</h2>
        <button class="button bare icon small" aria-label="Close" onClick={onClose}><Icon name="close" /></button>
      </div>
      {children}
      {foot && <div class="dialog-foot">{foot}</div>}
    </dialog>
  );
}
