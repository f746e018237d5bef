// The page of a run that goes on asks for what is known. The answer comes when that is more than it has, once a second at most.
let paused = false, pressed = false, wake = () => {}, stop = new AbortController();
const say = text => { if ($("live").textContent !== text) $("live").textContent = text; };

// update shows a recording. The focus, and the first of what begins in the window, stay where they are.
function update(recording) {
  const e = document.activeElement, box = e.closest("[id]"), all = () => [...box.querySelectorAll("button, [tabindex]")], at = box && all().indexOf(e);
  const top = e => e.getBoundingClientRect().top, first = [...document.querySelectorAll("section > *")].find(e => e.offsetHeight && top(e) > 45), y = first && top(first);
  show(recording);
  if (box && !e.isConnected) all()[at]?.focus({preventScroll: true});
  if (first && scrollY) scrollBy(0, top(first) - y);
}

async function ask(tag) {
  const r = await fetch("recording", {headers: tag ? {"If-None-Match": tag} : {}, signal: AbortSignal.any([stop.signal, AbortSignal.timeout(15e3)])});
  if (r.status === 401) return {stranger: true};
  if (r.status === 304) return {tag};
  if (!r.ok) throw new Error(r.status);
  return {tag: r.headers.get("ETag"), recording: await r.json()};
}

async function follow() {
  for (let known = {}, heard = new Date(); ;) {
    while (paused || pressed || document.hidden) await new Promise(done => wake = done);
    const answer = ask(known.tag); // before the page is drawn: a run that ends meanwhile tells those who wait
    if (known.recording) update(known.recording);
    try {
      known = await answer;
    } catch {
      known = {tag: known.tag};
      if (paused) continue;
      say("no answer since " + heard.toLocaleTimeString("sv") + ": the run has ended, or can't be reached");
      await new Promise(done => setTimeout(done, 2e3));
      continue;
    }
    heard = new Date();
    if (known.recording?.Ended) update(known.recording);
    if (known.stranger || run?.Ended) {
      $("pause").hidden = true;
      return say(known.stranger ? "another program answers here: open the address that it has printed" : "the run has ended");
    }
    say("");
  }
}

document.documentElement.style.overflowAnchor = "none"; // update does that
say("loading");
$("pause").hidden = false;
$("pause").addEventListener("click", () => {
  paused = !paused;
  $("pause").textContent = paused ? "Go on" : "Pause";
  if (paused) stop.abort(), stop = new AbortController();
  wake();
});
document.addEventListener("visibilitychange", () => wake());
addEventListener("pointerdown", () => pressed = true); // what is clicked must not be replaced before that is over
for (const end of ["pointerup", "pointercancel", "dragend"]) addEventListener(end, () => setTimeout(() => { pressed = false; wake(); }));
follow();
