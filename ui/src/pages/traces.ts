import "../app.ts";
import { open } from "../traces/page.ts";

open();
