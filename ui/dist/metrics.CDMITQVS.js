import"./c.OYEYYJMS.js";import"./c.VZ6YXNUR.js";import"./c.LTMZUQB4.js";import"./c.NIMKLZQK.js";import"./c.CE3PF6WI.js";import"./c.A6LXTHNP.js";
