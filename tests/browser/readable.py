"""What makes a page readable."""

WIDTHS = (360, 1440)  # of a window, in pixels
# Texts whose contrast with what is behind them is below 4.5 (WCAG 2.2, 1.4.3).
FAINT = """() => {
  const parts = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = (rgb) => rgb.slice(0, 3).map((v) => v / 255)
    .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
    .reduce((sum, v, at) => sum + v * [0.2126, 0.7152, 0.0722][at], 0);
  const behind = (node) => {
    const rgb = parts(getComputedStyle(node).backgroundColor);
    return rgb.length === 4 && rgb[3] === 0 ? (node.parentElement ? behind(node.parentElement) : [255, 255, 255]) : rgb;
  };
  const told = [...document.querySelectorAll("body *")].filter((node) =>
    [...node.childNodes].some((child) => child.nodeType === 3 && child.textContent.trim()));
  return told.filter((node) => {
    const [low, high] = [light(parts(getComputedStyle(node).color)), light(behind(node))].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05) < 4.5;
  }).map((node) => node.outerHTML.slice(0, 80));
}"""
