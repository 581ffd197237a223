import"./c.L6ZARYYO.js";import"./c.4AQKCIMY.js";import"./c.XON7XQHJ.js";import"./c.NIMKLZQK.js";import"./c.LFUVUTXJ.js";import"./c.LM2A4VSH.js";
