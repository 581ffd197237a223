// One dashboard.
import "../app.ts";
import "../el/time.ts";
import { DashboardPage } from "../dashboard/page.ts";

void new DashboardPage(document.getElementById("app")!).start();
