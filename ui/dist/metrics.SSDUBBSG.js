import"./c.OXM5V7MV.js";import"./c.GZIW4CAH.js";import"./c.3WOC3CXE.js";import"./c.4UMSPVMD.js";import"./c.FAPPGTHN.js";import"./c.GRC6Y3EM.js";
