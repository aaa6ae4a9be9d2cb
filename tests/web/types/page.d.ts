// Types that several modules of the page share.
declare namespace Page {
  /** What stands in an element: text, elements, lists of them; null and false are left out. */
  type Child = Node | string | number | boolean | null | undefined | Child[];
  type Attributes = Record<string, string | number | boolean | null | undefined | ((event: any) => unknown)>;
  type SvgTag = "svg" | "rect" | "line" | "circle" | "path" | "g" | "pattern" | "defs" | "text";
  /** Makes an element of its tag's type. */
  interface Make {
    <T extends keyof HTMLElementTagNameMap>(tag: T, attributes?: Attributes | null, ...children: Child[]): HTMLElementTagNameMap[T];
    (tag: SvgTag, attributes?: Attributes | null, ...children: Child[]): SVGElement;
  }
  type Params = Record<string, unknown>;
  /** What stands in an address. */
  type Place = Record<string, string | undefined>;
  type Id = number | string;
  /** What an artifact is known by. */
  type ArtifactName = Pick<Api.ArtifactVersion, "session" | "name"> & { version?: number };
  type Named = Pick<Api.SessionInfo, "name" | "title">;

  interface Scope { user: string; app: string }
  interface About { file: string; read_only: boolean; asks_network: boolean; logs_contexts: boolean; user: string }
  interface Change { kinds: string[]; sessions: { user: string; app: string; session: string }[]; is_complete: boolean; mark?: string }
  /** What went wrong: an answer of the server, or an error of the page. */
  interface Failure { name: string; message: string; code?: string; status?: number; todo?: string }
  /** A message of a list, its text cut to `max_chars`. */
  type Message = Api.Message & { text_chars: number; parts: Part[] | null };
  type Part = Record<string, any>;

  /** A view that is shown. */
  interface View {
    update?(params: Place): unknown;
    refresh?(change?: Change | null): unknown;
    destroy?(): void;
    close?(): boolean;
    keys?: Record<string, () => unknown>;
  }

  /** What a view gets: whose memory, what may be done, and the parts that all views share. */
  interface Context {
    params: Place;
    scope: { user: string | undefined; app: string | null | undefined };
    about: About;
    readOnly: boolean;
    box: HTMLInputElement;
    storage: { get(name: string): string | null; set(name: string, value: string): void };
    href(view: string, more?: Params): string;
    go(view: string, more?: Params): unknown;
    change(more?: Params): void;
    up(more?: Params): void;
    announce(text: string): void;
    toast(text: string, undo?: (() => unknown) | null): void;
    dialog(title: string, ...children: Child[]): { node: HTMLDialogElement; close: () => void };
    problem(error: unknown, again?: (() => unknown) | null): HTMLElement;
    copy(text: string, what?: string): Promise<void>;
    concerns(change: Change | null | undefined, kinds: string[], session?: string | null): boolean;
    setTitle(text: string): void;
    refresh(): unknown;
  }
  type Mount = (root: HTMLElement, ctx: Context) => Promise<View>;

  /** The nouns of which the API has lists. */
  type Lists = { [N in keyof Api.Get]: Api.Get[N] extends { items: unknown[] } ? N : never }[keyof Api.Get];
  type Item<N extends Lists> = Api.Get[N]["items"][number];
}
