// The Metrics explorer.
import "../app.ts";
import "../el/time.ts";
import { MetricsPage } from "../metrics/page.ts";

void new MetricsPage(document.getElementById("app")!).start();
