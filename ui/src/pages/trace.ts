import "../app.ts";
