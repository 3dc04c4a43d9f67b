// Finds text for people that stands in a screen instead of in the catalogue. Used by a test alone.

import { parse } from "svelte/compiler";

export interface Found {
  line: number;
  text: string;
}

interface Node {
  type: string;
  start: number;
  end: number;
  [part: string]: unknown;
}

const LETTER = /\p{L}/u;
/** Attributes, and properties of our own components, that people read or hear. */
const READ = new Set(
  "aria-label aria-valuetext title placeholder alt label hint what word said note columns verb".split(" "),
);
/** Names of what a question, a tab or a state is called, in objects of scripts. */
const SAID = new Set("word label title text verb hint otherwise".split(" "));
/** Two words, or one with a capital: no name of a state, a key or a class looks so. */
const isSentence = (text: string): boolean => /\p{L}[,.:;]? +\S*\p{L}/u.test(text) || /^\s*\p{Lu}\p{Ll}+$/u.test(text);
/** Selectors, styles and policies are no sentences. */
const isCode = (text: string): boolean => /[[\]<>{}=#]|px|%|'none'|^[(.]|^[a-z]+(, [a-z]+)+$/.test(text);

export function literals(source: string): Found[] {
  const found: Found[] = [];
  const note = (node: Node): void => {
    const line = source.slice(0, node.start).split("\n").length;
    found.push({ line, text: source.slice(node.start, node.end).replace(/\s+/g, " ").trim() });
  };
  const tree = parse(source, { modern: true }) as unknown as Record<string, Node | null>;
  inMarkup(tree.fragment, false, note);
  for (const script of [tree.instance, tree.module]) inScript((script as Node | null)?.content, "", note);
  return found;
}

type Note = (node: Node) => void;
const isNode = (value: unknown): value is Node => typeof value === "object" && value !== null && "type" in value;
const nodes = (value: unknown): Node[] => (Array.isArray(value) ? value : [value]).filter(isNode);

function inMarkup(value: unknown, isQuoted: boolean, note: Note): void {
  for (const node of nodes(value)) {
    if (node.type === "Text" && !isQuoted && LETTER.test(String(node.data))) note(node);
    else if (node.type === "ExpressionTag" && !isQuoted) shown(node.expression).forEach(note);
    else if (node.type === "Attribute") inAttribute(node, note);
    else for (const part of ["expression", "declaration", "test"]) inScript(node[part], "", note);
    // What is between these marks is typed or read by programs: the same in every language.
    const isCodeMark = isQuoted || ["code", "kbd", "pre"].includes(String(node.name));
    for (const part of ["attributes", "fragment", "nodes", "consequent", "alternate", "body", "fallback"])
      inMarkup(node[part], isCodeMark, note);
  }
}

function inAttribute(node: Node, note: Note): void {
  const isRead = READ.has(String(node.name));
  for (const part of nodes(node.value)) {
    if (isRead && part.type === "Text" && LETTER.test(String(part.data))) note(part);
    else if (part.type !== "ExpressionTag") continue;
    else if (isRead) shown(part.expression).forEach(note);
    else inScript(part.expression, "", note);
  }
}

/** The texts that an expression may come to: both sides of a condition, the parts of a template, but no argument. */
function shown(value: unknown): Node[] {
  return nodes(value).flatMap((node): Node[] => {
    switch (node.type) {
      case "Literal":
        return typeof node.value === "string" && LETTER.test(node.value) ? [node] : [];
      case "TemplateLiteral":
        return [...(LETTER.test(quasis(node)) ? [node] : []), ...shown(node.expressions)];
      case "ConditionalExpression":
        return [...shown(node.consequent), ...shown(node.alternate)];
      case "LogicalExpression":
        return [...(node.operator === "&&" ? [] : shown(node.left)), ...shown(node.right)];
      case "BinaryExpression":
        return node.operator === "+" ? [...shown(node.left), ...shown(node.right)] : [];
      case "ArrayExpression":
        return shown(node.elements);
      default:
        return [];
    }
  });
}

const quasis = (node: Node): string =>
  nodes(node.quasis)
    .map((one) => (one.value as { cooked: string }).cooked)
    .join(" \0 ");

const COMPARES = new Set(["startsWith", "endsWith", "includes"]);
/** `startsWith` of `text.startsWith`, `word` of `{ word: … }`. */
const nameOf = (node: unknown): string => {
  const { name, value, property } = node as { name?: unknown; value?: unknown; property?: unknown };
  return property ? nameOf(property) : String(name ?? value ?? "");
};
const TYPES = new Set(["typeAnnotation", "returnType", "typeParameters", "typeArguments"]);

function inScript(value: unknown, key: string, note: Note): void {
  for (const node of nodes(value)) {
    if (node.type.startsWith("TS") && !/^TS(As|NonNull|Satisfies)Expression$/.test(node.type)) continue;
    if (node.type === "ImportDeclaration" || node.type === "ThrowStatement") continue;
    if (node.type === "BinaryExpression" && /^[!=]==$/.test(String(node.operator))) continue;
    if (node.type === "CallExpression" && COMPARES.has(nameOf(node.callee))) continue;
    if (node.type === "Property" && nameOf(node.key) === "key") continue; // of the keyboard
    if (node.type === "Literal" && typeof node.value === "string") {
      const isText = isSentence(node.value) || (SAID.has(key) && LETTER.test(node.value));
      if (isText && !isCode(node.value)) note(node);
    } else if (node.type === "TemplateLiteral" && / \p{L}{2}|\p{L}{2} /u.test(quasis(node))) {
      if (!isCode(quasis(node))) note(node);
    } else if (node.type === "Property") inScript(node.value, nameOf(node.key), note);
    else
      for (const [name, part] of Object.entries(node))
        if (!TYPES.has(name) && !(node.type === "SwitchCase" && name === "test")) inScript(part, "", note);
  }
}
