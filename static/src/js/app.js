// Entry of the consoles' scripts. Every page works without them; they make it quicker, live and kinder.

import { startAnnouncements } from "./announce.js";
import { startCharts } from "./charts.js";
import { startCopying } from "./copy.js";
import { startDialogs } from "./dialog.js";
import { startDirtyGuard } from "./dirty.js";
import { startDrawer } from "./drawer.js";
import { startFragments } from "./fragments.js";
import { startLive } from "./live.js";
import { startMenus } from "./menus.js";
import { startReveal } from "./reveal.js";
import { startSubmitOnce } from "./submit.js";
import { startTheme } from "./theme.js";
import { startTimes } from "./times.js";
import { startUndo } from "./undo.js";

document.documentElement.classList.add("scripted");
startFragments();
startAnnouncements();
startTheme();
startMenus();
startDrawer();
startDialogs();
startCopying();
startReveal();
startSubmitOnce();
startDirtyGuard();
startUndo();
startTimes();
startCharts();
startLive();
