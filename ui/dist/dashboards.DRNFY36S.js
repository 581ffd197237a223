import"./c.BALJGEES.js";import"./c.CJ5TGV56.js";import"./c.MOAVTL4V.js";import"./c.LFUVUTXJ.js";import"./c.LM2A4VSH.js";
