import"./c.YEEVQOTF.js";import"./c.XFF4HJR5.js";import"./c.XSI54KGT.js";import"./c.L5IBBXPZ.js";
