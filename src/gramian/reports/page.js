(function () {
  "use strict";
  var root = document.documentElement, button = document.getElementById("theme");
  var wish = window.matchMedia("(prefers-color-scheme: dark)");
  function dark() {
    var chosen = root.getAttribute("data-theme");
    return chosen ? chosen === "dark" : wish.matches;
  }
  function show() {
    button.setAttribute("aria-pressed", String(dark()));
    document.getElementById("theme-name").textContent = dark() ? "Light" : "Dark";
  }
  button.addEventListener("click", function () {
    root.setAttribute("data-theme", dark() ? "light" : "dark");
    show();
  });
  wish.addEventListener("change", show);
  show();
})();
