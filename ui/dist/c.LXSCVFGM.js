import{a,b,c,d}from"./c.ZTJMSY25.js";import"./c.3KVO7RNL.js";import"./c.TCNNIQG2.js";export{b as functions,a as keywords,d as sqlComplete,c as types};
