// Keeps relative times true while the page is open. The server renders them, in the same words (template #time-words);
// the exact time is in `datetime` and `title`.
// <time data-relative datetime="…"> says how far away it is; <time data-countdown …> only how long until then.

const BEYOND = 172_800; // from two days on the server wrote a date

function span(seconds, words) {
  const fill = (text, values) => text.replace(/%\((\w+)\)(0?)(\d?)d/g, (_, name, zero, width) => String(values[name]).padStart(zero ? Number(width) : 0, "0"));
  const minutes = Math.floor(seconds / 60);
  if (seconds < 60) return fill(words.seconds, { seconds });
  if (minutes < 60) return fill(words.minutes, { minutes });
  const hours = Math.floor(minutes / 60);
  if (hours < 24) return fill(minutes % 60 ? words.hoursMinutes : words.hours, { hours, minutes: minutes % 60 });
  const days = Math.floor(hours / 24);
  return fill(hours % 24 ? words.daysHours : words.days, { days, hours: hours % 24 });
}

function tick(words) {
  for (const element of document.querySelectorAll("time[data-relative], time[data-countdown]")) {
    const seconds = Math.round((new Date(element.dateTime) - Date.now()) / 1_000);
    if (Math.abs(seconds) >= BEYOND) continue;
    const length = span(element.hasAttribute("data-countdown") ? Math.max(0, seconds) : Math.abs(seconds), words);
    const frame = element.hasAttribute("data-countdown") ? "%(span)s" : seconds > 0 ? words.ahead : words.ago;
    const text = frame.replace("%(span)s", length);
    if (element.textContent !== text) element.textContent = text;
  }
}

export function startTimes() {
  const words = document.getElementById("time-words")?.dataset;
  if (words) setInterval(() => tick(words), 5_000);
}
