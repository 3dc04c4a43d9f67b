// What of a page cannot be read or pressed as it stands: it scrolls sideways, a control lies outside or under something
// else even when it is scrolled to, a text is cut off without a sign. Nets and the editor move inside their own frames.
(within) => {
  const root = document.querySelector(within);
  const found = new Set();
  const said = (element) =>
    `${element.tagName.toLowerCase()}.${element.classList[0] ?? ""} "${(element.getAttribute("aria-label") ?? element.textContent ?? "").trim().slice(0, 40)}"`;
  const isOwn = (element) => !element.closest(".svelte-flow, .cm-editor, .visually-hidden, .skip, iframe");
  const isSeen = (element) => element.checkVisibility({ visibilityProperty: true, opacityProperty: true });
  const over = document.documentElement.scrollWidth - innerWidth;
  if (over > 0) found.add(`the page scrolls sideways by ${over} px`);
  const at = [scrollX, scrollY];
  const controls = "a[href], button:not(:disabled), input, select, textarea, summary, [role=tab]";
  for (const element of root.querySelectorAll(controls)) {
    if (!isOwn(element) || !isSeen(element)) continue;
    element.scrollIntoView({ block: "center", inline: "nearest", behavior: "instant" });
    const box = element.getClientRects()[0];
    if (!box || box.width < 2 || box.height < 2) continue;
    const [x, y] = [box.left + box.width / 2, box.top + box.height / 2];
    const top = document.elementFromPoint(x, y);
    if (!top) found.add(`out of reach: ${said(element)}`);
    else if (!element.contains(top) && !top.contains(element) && !top.closest("label")?.contains(element))
      found.add(`covered: ${said(element)} by ${said(top)}`);
  }
  for (const cell of root.querySelectorAll("td")) {
    const name = getComputedStyle(cell, "::before"); // of its column, where rows are lists
    if (isSeen(cell) && name.content !== "none" && parseFloat(name.height) > cell.clientHeight)
      found.add(`the name ${name.content} covers the next: ${said(cell)}`);
  }
  for (const element of root.querySelectorAll("*")) {
    if (!isOwn(element) || !isSeen(element) || element.closest("svg, canvas, select, option")) continue;
    if (![...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim())) continue;
    const style = getComputedStyle(element);
    const isCut = (overflow, whole, part) => ["hidden", "clip"].includes(overflow) && whole - part > 1;
    if (style.textOverflow !== "ellipsis" && isCut(style.overflowX, element.scrollWidth, element.clientWidth))
      found.add(`cut off: ${said(element)}`);
    else if (style.webkitLineClamp === "none" && isCut(style.overflowY, element.scrollHeight, element.clientHeight + 2))
      found.add(`cut off below: ${said(element)}`);
    // What an ancestor hides, not scrolls, is cut off, too.
    const box = element.getBoundingClientRect();
    for (let around = element.parentElement; around && around !== document.body; around = around.parentElement) {
      const overflow = getComputedStyle(around).overflowX;
      if (overflow === "auto" || overflow === "scroll") break;
      const edge = around.getBoundingClientRect();
      if (["hidden", "clip"].includes(overflow)) {
        if (edge.width <= 1) break; // for screen readers alone
        if (box.right - edge.right > 1 && style.textOverflow !== "ellipsis" && getComputedStyle(around).textOverflow !== "ellipsis")
          found.add(`cut off by ${said(around).slice(0, 40)}: ${said(element)}`);
        break;
      }
    }
  }
  scrollTo(...at);
  return [...found];
}
