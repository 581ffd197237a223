import{a,b,c,d}from"./c.ZTJMSY25.js";import"./c.CE3PF6WI.js";import"./c.A6LXTHNP.js";export{b as functions,a as keywords,d as sqlComplete,c as types};
