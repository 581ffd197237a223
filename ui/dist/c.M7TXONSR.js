import{a,b,c,d}from"./c.ZTJMSY25.js";import"./c.FAPPGTHN.js";import"./c.GRC6Y3EM.js";export{b as functions,a as keywords,d as sqlComplete,c as types};
