import "../app.ts";
import { $ } from "../lib/dom.ts";
import { LogsPage } from "../logs/page.ts";

new LogsPage($("#app")!);
