import"./c.TODJM5RA.js";import"./c.VZ6YXNUR.js";import"./c.SEG7D4G7.js";import"./c.NIMKLZQK.js";import"./c.CE3PF6WI.js";import"./c.A6LXTHNP.js";
