import{a,b,c,d}from"./c.ZTJMSY25.js";import"./c.LFUVUTXJ.js";import"./c.LM2A4VSH.js";export{b as functions,a as keywords,d as sqlComplete,c as types};
