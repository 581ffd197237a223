import"./c.6TZM7MJC.js";import"./c.2BWNYGI3.js";import"./c.CE3PF6WI.js";import"./c.A6LXTHNP.js";
