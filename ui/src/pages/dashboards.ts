// The list of dashboards.
import "../app.ts";
import { DashboardList } from "../dashboards/list.ts";

void new DashboardList(document.getElementById("app")!).start();
