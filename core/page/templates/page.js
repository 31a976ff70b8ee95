// Keeps a page up to date while somebody looks at it. Without it a page is as it was
// when it was asked for. What somebody has typed stays: only the part "live" is replaced.
"use strict";
(function () {
  const live = document.getElementById("live"), news = document.getElementById("news");
  if (!live || !window.fetch || !window.ReadableStream) return;
  let due = 0, pause = 1000;
  const say = (text) => { if (news && news.textContent !== text) news.textContent = text; };

  async function look() {
    due = 0;
    const answer = await fetch(location.pathname, { headers: { "Pml-Live": "1" }, cache: "no-store", redirect: "error" });
    if (!answer.ok) { say("This cannot be shown any more: load the page again."); return; }
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("live");
    if (!fresh) return;
    const now = document.getElementById("live");
    if (fresh.textContent !== now.textContent) now.replaceChildren(...fresh.childNodes);
    if (fresh.dataset.waits === "false") {
      const form = document.getElementById("decide");
      if (form) form.remove();
    }
  }

  function soon() { if (!due) due = setTimeout(() => look().catch(() => {}), 300); }

  async function follow() {
    const answer = await fetch("/page/events", { cache: "no-store", redirect: "error" });
    if (!answer.ok) throw new Error("refused");
    say("");
    pause = 1000;
    soon();
    const reader = answer.body.getReader(), text = new TextDecoder();
    for (;;) {
      const part = await reader.read();
      if (part.done) return;
      if (/^(id|event|data):/m.test(text.decode(part.value, { stream: true }))) soon();
    }
  }

  (async function () {
    for (;;) {
      try { await follow(); } catch (e) { say("Not connected: what is shown may be old."); }
      await new Promise((done) => setTimeout(done, pause));
      pause = Math.min(2 * pause, 30000);
    }
  })();
  if (live.dataset.waits !== undefined) setInterval(soon, 30000); // an expiry makes no event
})();
