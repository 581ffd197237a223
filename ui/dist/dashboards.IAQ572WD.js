import"./c.GYVM54PQ.js";import"./c.NZPFBSHR.js";import"./c.24L63MGN.js";import"./c.XSI54KGT.js";import"./c.L5IBBXPZ.js";
