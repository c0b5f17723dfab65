import { Component, type ComponentChild, type FunctionComponent } from "preact";

/** Drawn anew only when something that it is given is another thing. */
export function memo<P extends object>(draw: (props: P) => ComponentChild): FunctionComponent<P> {
  return class extends Component<P> {
    override shouldComponentUpdate(next: P): boolean {
      const keys = Object.keys(next) as (keyof P)[];
      return keys.some((key) => next[key] !== this.props[key]);
    }

    override render(): ComponentChild {
      return draw(this.props);
    }
  } as unknown as FunctionComponent<P>;
}
