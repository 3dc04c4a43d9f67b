// What a screen reader, a keyboard or weak eyes would stumble over: the serious and critical findings of WCAG 2.1 AA that
// can be told from the page itself. Given to the page by `audit.py`; gives one line for each finding.
() => {
  const found = [];
  const say = (rule, element, more = "") => found.push(`${rule}: ${describe(element)}${more ? ` (${more})` : ""}`);
  const describe = (element) => `<${element.tagName.toLowerCase()}${element.id ? ` id=${element.id}` : ""}${element.className && typeof element.className === "string" ? ` class="${element.className.slice(0, 60)}"` : ""}> ${(element.textContent ?? "").trim().slice(0, 40)}`;

  function* everything(root) {
    for (const element of root.querySelectorAll("*")) {
      yield element;
      if (element.shadowRoot) yield* everything(element.shadowRoot);
    }
  }
  const all = [...everything(document)];
  const isShown = (element) => element.checkVisibility({ opacityProperty: true, visibilityProperty: true });
  const isHidden = (element) => element.closest("[aria-hidden='true']") !== null;

  // names
  const INTERACTIVE = "button, a[href], input:not([type=hidden]), select, textarea, summary, [role=button], [role=tab], [role=link], [role=checkbox], [contenteditable='true']";
  function nameOf(element) {
    const by = (element.getAttribute("aria-labelledby") ?? "").split(/\s+/).filter(Boolean).map((id) => element.getRootNode().getElementById(id)?.textContent ?? "").join(" ");
    if (by.trim()) return by.trim();
    if (element.getAttribute("aria-label")?.trim()) return element.getAttribute("aria-label").trim();
    if (element.labels?.length) return [...element.labels].map((label) => label.textContent).join(" ").trim();
    const images = [...element.querySelectorAll("img[alt], svg[aria-label]")].map((one) => one.getAttribute("alt") ?? one.getAttribute("aria-label")).join(" ");
    const isField = /^(INPUT|SELECT|TEXTAREA)$/.test(element.tagName);
    const text = isField ? "" : [...element.childNodes].map((node) => (node.nodeType === 3 ? node.textContent : node.nodeType === 1 && node.getAttribute("aria-hidden") !== "true" ? node.textContent : "")).join(" ");
    return (text.trim() || images.trim() || element.getAttribute("title")?.trim()) ?? "";
  }
  for (const element of all) {
    if (!element.matches(INTERACTIVE) || !isShown(element)) continue;
    if (isHidden(element)) {
      if (element.tabIndex >= 0 && !element.disabled) say("focus inside what is hidden", element);
    } else if (!nameOf(element)) say("no name", element);
    if (element.parentElement?.closest("button, a[href], [role=button], summary") && !element.matches("summary")) say("one control inside another", element);
    if (element.tabIndex > 0) say("order of focus is forced", element);
  }

  // structure
  if (!document.documentElement.lang) say("no language", document.documentElement);
  if (!document.title.trim()) say("no title", document.documentElement);
  const mains = all.filter((one) => one.matches("main, [role=main]") && isShown(one));
  if (mains.length !== 1) say(`${mains.length} main parts`, document.body);
  if (!all.some((one) => one.matches("h1") && isShown(one))) say("no heading of the first level", document.body);
  for (const element of all) {
    if (element.matches("img:not([alt])")) say("picture without words", element);
    if (element.matches("svg[role=img]:not([aria-label]):not([aria-labelledby])")) say("picture without words", element);
    if (element.matches("ul, ol") && [...element.children].some((child) => !child.matches("li, script, template"))) say("list with something else in it", element);
    if (element.matches("li") && !element.parentElement?.matches("ul, ol, [role=list]")) say("item without a list", element);
    if (element.matches("[role=tab]") && !element.closest("[role=tablist]")) say("tab without a list", element);
    if (element.matches("[role=listitem]") && !element.closest("[role=list]")) say("item without a list", element);
    if (element.matches("dt, dd") && !element.closest("dl")) say("term without a list", element);
    for (const name of ["aria-labelledby", "aria-describedby"]) {
      for (const id of (element.getAttribute(name) ?? "").split(/\s+/).filter(Boolean)) if (!element.getRootNode().getElementById(id)) say(`${name} leads nowhere`, element, id);
    }
  }
  const ids = new Map();
  for (const element of document.querySelectorAll("[id]")) {
    if (ids.has(element.id)) say("an id twice", element);
    ids.set(element.id, element);
  }

  // what scrolls can be reached by keyboard
  for (const element of all) {
    if (!isShown(element) || isHidden(element)) continue;
    const style = getComputedStyle(element);
    const isScrolled = (/(auto|scroll)/.test(style.overflowY) && element.scrollHeight > element.clientHeight + 1) || (/(auto|scroll)/.test(style.overflowX) && element.scrollWidth > element.clientWidth + 1);
    if (!isScrolled || element === document.documentElement || element === document.body) continue;
    const isReached = element.tabIndex >= 0 || element.querySelector("a[href], button:not(:disabled), input, select, textarea, summary, [tabindex='0'], [contenteditable='true']");
    if (!isReached) say("scrolls and cannot be reached by keyboard", element);
  }

  // contrast
  const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const seen = new Map();
  function rgba(colour) {
    if (!seen.has(colour)) {
      canvas.clearRect(0, 0, 1, 1);
      canvas.fillStyle = colour;
      canvas.fillRect(0, 0, 1, 1);
      const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
      seen.set(colour, [r, g, b, a / 255]);
    }
    return seen.get(colour);
  }
  const over = ([r, g, b, a], [x, y, z]) => [r * a + x * (1 - a), g * a + y * (1 - a), b * a + z * (1 - a)];
  function ground(element) {
    const layers = [];
    for (let at = element; at; at = at.parentElement ?? at.getRootNode().host) {
      const colour = rgba(getComputedStyle(at).backgroundColor);
      if (colour[3] > 0) layers.push(colour);
      if (colour[3] === 1) break;
    }
    return layers.reverse().reduce((under, layer) => over(layer, under), [255, 255, 255]);
  }
  const light = (colour) => {
    const [r, g, b] = colour.map((one) => ((one /= 255) <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  for (const element of all) {
    if (element.closest("svg, canvas, option") || !isShown(element) || element.closest(":disabled, [aria-disabled=true]")) continue;
    if (![...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim())) continue;
    const box = element.getBoundingClientRect();
    if (box.width < 2 || box.height < 2) continue;
    const style = getComputedStyle(element);
    const under = ground(element);
    const ink = over(rgba(style.color), under);
    const [a, b] = [light(ink), light(under)].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    const size = Number.parseFloat(style.fontSize);
    const isLarge = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    if (ratio < (isLarge ? 3 : 4.5) - 0.01) say("too little contrast", element, ratio.toFixed(2));
  }

  // narrow screens
  const wide = document.documentElement.scrollWidth - document.documentElement.clientWidth;
  if (wide > 1) say("the page is wider than the screen", document.documentElement, `${wide} px`);
  return [...new Set(found)];
}
