// A table that is wider than the page scrolls; the keyboard must reach it to scroll it.
const reach = () => {
  for (const wrap of document.querySelectorAll(".md-typeset__scrollwrap")) {
    if (wrap.scrollWidth > wrap.clientWidth) {
      wrap.tabIndex = 0
      wrap.setAttribute("role", "region")
      wrap.setAttribute("aria-label", "A wide table, which scrolls")
    } else {
      for (const name of ["tabindex", "role", "aria-label"]) wrap.removeAttribute(name)
    }
  }
}
new MutationObserver(reach).observe(document.body, { childList: true, subtree: true })
addEventListener("resize", reach)
addEventListener("load", reach)
