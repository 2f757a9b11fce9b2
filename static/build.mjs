// Builds what the consoles load: static/src → static/dist (style sheet, scripts, icon sprite, fonts).
// Everything comes from packages of the lock file; the output names no other host and is not committed.

import { spawn } from "node:child_process";
import { cp, mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build, context } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const source = join(here, "src");
const output = join(here, "dist");
const require = createRequire(import.meta.url);
const watching = process.argv.includes("--watch");

/** Folder of an installed package. */
const packageFolder = (name) => dirname(require.resolve(`${name}/package.json`));

/** One SVG with a symbol for each icon that icons.json names: own name → name in lucide. */
async function buildIcons() {
  const names = JSON.parse(await readFile(join(source, "icons.json"), "utf8"));
  const folder = join(packageFolder("lucide-static"), "icons");
  const symbols = await Promise.all(
    Object.entries(names).map(async ([name, lucide]) => {
      const svg = await readFile(join(folder, `${lucide}.svg`), "utf8");
      const shapes = svg.slice(svg.indexOf(">", svg.indexOf("<svg")) + 1, svg.lastIndexOf("</svg>"));
      const body = shapes.replace(/\s+/g, " ").replaceAll("> <", "><").trim();
      return `<symbol id="${name}" viewBox="0 0 24 24" fill="none" stroke="currentColor" stroke-linecap="round" stroke-linejoin="round">${body}</symbol>`;
    }),
  );
  await writeFile(join(output, "icons.svg"), `<svg xmlns="http://www.w3.org/2000/svg">${symbols.join("\n")}</svg>\n`);
}

/** The variable fonts that the style sheet names. */
async function copyFonts() {
  const fonts = [
    ["@fontsource-variable/inter", "inter-latin-wght-normal.woff2"],
    ["@fontsource-variable/inter", "inter-latin-ext-wght-normal.woff2"],
    ["@fontsource-variable/jetbrains-mono", "jetbrains-mono-latin-wght-normal.woff2"],
  ];
  await mkdir(join(output, "fonts"), { recursive: true });
  await Promise.all(
    fonts.map(([name, file]) => cp(join(packageFolder(name), "files", file), join(output, "fonts", file))),
  );
}

const scripts = {
  entryPoints: [join(source, "js", "app.js")],
  outdir: output,
  bundle: true,
  splitting: true,
  format: "esm",
  target: "es2022",
  minify: !watching,
  legalComments: "linked",
  chunkNames: "chunk-[name]-[hash]",
};

/** Runs Tailwind's command line, once or for as long as we watch. */
function buildStyles() {
  const folder = packageFolder("@tailwindcss/cli");
  const { bin } = require("@tailwindcss/cli/package.json");
  const command = join(folder, typeof bin === "string" ? bin : Object.values(bin)[0]);
  const args = [command, "-i", join(source, "app.css"), "-o", join(output, "app.css"), watching ? "--watch" : "--minify"];
  return new Promise((done, fail) => {
    const child = spawn(process.execPath, args, { cwd: here, stdio: ["ignore", "inherit", "inherit"] });
    child.on("error", fail);
    child.on("exit", (code) => (code ? fail(new Error(`the style sheet failed to build (${code})`)) : done()));
  });
}

if (!watching) await rm(output, { recursive: true, force: true });
await mkdir(output, { recursive: true });
await Promise.all([buildIcons(), copyFonts(), cp(join(source, "icon.svg"), join(output, "icon.svg"))]);
if (watching) {
  await (await context(scripts)).watch();
  await buildStyles();
} else {
  await Promise.all([build(scripts), buildStyles()]);
}
