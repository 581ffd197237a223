import"./c.CSPNE33O.js";import"./c.A6LXTHNP.js";
