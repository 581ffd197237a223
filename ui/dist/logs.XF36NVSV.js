import"./c.ANEYSPYA.js";import"./c.455DBSSP.js";import"./c.LFUVUTXJ.js";import"./c.LM2A4VSH.js";
